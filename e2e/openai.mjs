// Sends requests with the official OpenAI client for Node and prints what that
// client measured, one JSON line: the other side of the dashboard's figures.
//
//   node e2e/openai.mjs BASE_URL KEY MODEL STREAMS PLAIN
import OpenAI from "openai";

const [baseURL, apiKey, model, streams, plain] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey });
const messages = [{ role: "user", content: "Say something about valves." }];
const now = () => performance.now();
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

const ttft = [];
const e2e = [];
let prompt = 0;
let completion = 0;

async function stream() {
  const started = now();
  let first = 0;
  const events = await client.chat.completions.create({
    model, messages, stream: true, max_tokens: 24, stream_options: { include_usage: true },
  });
  for await (const event of events) {
    if (!first && event.choices[0]?.delta?.content) first = now();
    if (event.usage) {
      prompt += event.usage.prompt_tokens;
      completion += event.usage.completion_tokens;
    }
  }
  ttft.push(first - started);
  e2e.push(now() - started);
}

async function answer() {
  const started = now();
  const r = await client.chat.completions.create({ model, messages, max_tokens: 24 });
  e2e.push(now() - started);
  prompt += r.usage.prompt_tokens;
  completion += r.usage.completion_tokens;
}

// The first requests of a client open connections and compile code; they are
// sent, and counted in tokens, but say nothing about the server's speed.
const models = [];
for await (const m of await client.models.list()) models.push(m.id);
for (let i = 0; i < streams; i++) await stream();
for (let i = 0; i < plain; i++) await answer();

let refusal = "";
try {
  await client.chat.completions.create({ model: "no-such-model", messages });
} catch (err) {
  refusal = `${err.status} ${err.code}`;
}
console.log(JSON.stringify({
  models, prompt, completion, requests: Number(streams) + Number(plain),
  ttft_p50: median(ttft), e2e_p50: median(e2e), refusal,
}));
