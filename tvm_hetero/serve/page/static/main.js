// The page: a document a second comes from the server and each part draws what it shows of it.

import { drawCores } from "./cores.js";
import { say } from "./dom.js";
import { drawEvents } from "./events.js";
import { duration, number } from "./format.js";
import { askForKey } from "./key.js";
import { drawModels } from "./models.js";
import { drawSlowest } from "./slowest.js";
import { follow } from "./stream.js";
import { drawSummary } from "./summary.js";
import { startTheme } from "./theme.js";
import { drawTrouble } from "./trouble.js";

const place = (id) => document.getElementById(id);
const PARTS = [
  ["summary", drawSummary],
  ["cores", drawCores],
  ["models", drawModels],
  ["trouble", drawTrouble],
  ["slowest", drawSlowest],
  ["events", drawEvents],
];
let last = null;

function tellStatus(kind, text) {
  const status = place("status");
  status.className = `pill ${kind}`;
  say(status, text);
}

function statusOf(snapshot) {
  if (snapshot.draining) {
    return ["bad", "Shutting down"];
  }
  const away = snapshot.models.filter((model) => model.state !== "READY").length;
  return away ? ["bad", `${away} of ${snapshot.models.length} not ready`] : ["good", "Ready"];
}

function draw() {
  if (last === null || place("main").hidden) {
    return;
  }
  for (const [id, part] of PARTS) {
    part(place(id), last);
  }
}

function receive(snapshot) {
  last = snapshot;
  place("main").hidden = false;
  place("notice").hidden = true;
  tellStatus(...statusOf(snapshot));
  const { process, loop } = snapshot.cpu;
  const cpu = `${number(process)} cores busy, ${number(loop)} of it with HTTP`;
  const up = duration(snapshot.now - snapshot.started);
  say(place("facts"), `${snapshot.version} · ${location.host} · up ${up} · ${cpu}`);
  draw();
}

function lose(text) {
  tellStatus("bad", "Not connected");
  const kept = last === null ? "" : " What is shown is the last that came.";
  say(place("notice"), `${text}${kept} Trying again.`);
  place("notice").hidden = false;
}

async function ask() {
  place("main").hidden = true;
  place("notice").hidden = true;
  tellStatus("plain", "Needs a key");
  await askForKey(place("key"));
}

startTheme(place("theme"));
window.addEventListener("resize", draw);
follow({ document: receive, lost: lose, key: ask });
