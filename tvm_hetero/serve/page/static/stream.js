// One document a second from the server. `EventSource` cannot send a key, so the stream is read by
// hand: events are separated by empty lines.

import { authorization } from "./key.js";

const LONGEST_WAIT = 10000;

/** The server wants a key, or another one. */
export class KeyError extends Error {}

/** The answer to a request of ours as JSON. */
export async function getJson(path) {
  return (await ask(path)).json();
}

async function ask(path, signal) {
  const reply = await fetch(path, { headers: authorization(), cache: "no-store", signal });
  if (reply.status === 401) {
    throw new KeyError();
  }
  if (!reply.ok) {
    const text = await reply.json().then((body) => body.error, () => `status ${reply.status}`);
    throw new Error(text);
  }
  return reply;
}

async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    yield* parts.map((part) => JSON.parse(part.slice("data: ".length)));
  }
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Resolves when someone looks at the tab. */
function seen() {
  if (!document.hidden) {
    return Promise.resolve();
  }
  return new Promise((resolve) =>
    document.addEventListener("visibilitychange", resolve, { once: true }),
  );
}

/**
 * Follow the server for as long as the page is open, and come back when it is lost. A tab that no
 * one sees lets go of its place.
 *
 * told.document(snapshot), told.lost(text), told.key(): a promise of a key.
 */
export async function follow(told) {
  let wait = 1000;
  for (;;) {
    await seen();
    const leave = new AbortController();
    const hide = () => document.hidden && leave.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      for await (const snapshot of events(await ask("/page/events", leave.signal))) {
        wait = 1000;
        told.document(snapshot);
      }
      told.lost("The server has ended.");
    } catch (error) {
      if (error instanceof KeyError) {
        await told.key();
        continue;
      }
      if (leave.signal.aborted) {
        continue;
      }
      told.lost(error instanceof TypeError ? "The server does not answer." : error.message);
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
    await pause(wait);
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
}
