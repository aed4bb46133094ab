// OpenAI's client for JavaScript: what the test reads is one line of JSON.
import OpenAI from "openai";

const [url] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const asked = { model: "chat", max_tokens: 10, temperature: 0 };
const messages = [{ role: "user", content: "what is a dog?" }];

const whole = await client.chat.completions.create({ ...asked, messages });
let told = "";
let usage = null;
const stream = await client.chat.completions.create({
  ...asked, messages, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  told += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
const text = await client.completions.create({ ...asked, prompt: ["the dog", "x"], logprobs: 1 });
let failure = null;
try {
  await client.chat.completions.create({ ...asked, messages, model: "gpt-9" });
} catch (error) {
  failure = [error.constructor.name, error.status, error.code, error.param];
}
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const helper = client.chat.completions.stream({ ...asked, messages });
const final = await helper.finalChatCompletion();

console.log(JSON.stringify({
  whole: whole.choices[0].message.content, told, usage, failure, models,
  texts: text.choices.map((choice) => choice.text),
  logprobs: text.choices[0].logprobs.token_logprobs.length,
  final: [final.choices[0].message.role, final.choices[0].message.content],
}));
