// Walks through what programs do with the official OpenAI client for Node and
// prints what the client made of it, as one line of JSON.
//
//   node e2e/openai_cases.mjs '{"base": …, "model": …, "user": …, "keys": {"app": …, "single": …, "slow": …, "poor": …}, "full": …}'
//
// full is when the key named slow has had its requests of the minute for so long
// that it gets another one soon, in milliseconds since 1970.
import OpenAI from "openai";

const { base, model, user: name, keys, full } = JSON.parse(process.argv[2]);
const now = () => performance.now();
const user = (content) => [{ role: "user", content }];

// Every client notes the statuses of the answers it got, retries among them.
function client(key, options) {
  const statuses = [];
  const watched = async (url, init) => {
    const r = await fetch(url, init);
    statuses.push(r.status);
    return r;
  };
  return Object.assign(new OpenAI({ baseURL: base, apiKey: keys[key], fetch: watched, ...options }), { statuses });
}
const app = client("app");

const tools = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" }, unit: { type: "string" } }, required: ["city"] },
  },
}];

async function models() {
  const ids = [];
  for await (const m of await app.models.list()) ids.push(m.id);
  const one = await app.models.retrieve(model);
  return { ids, retrieved: one.id };
}

async function plain() {
  const { data, response } = await app.chat.completions.create({ model, messages: user("Say something about valves.") }).withResponse();
  return { id: response.headers.get("x-request-id"), model: data.model, text: data.choices[0].message.content, reason: data.choices[0].finish_reason,
    prompt: data.usage.prompt_tokens, completion: data.usage.completion_tokens, unknown: JSON.stringify(data.x_engine) };
}

async function streamed(options) {
  const { data, response } = await app.chat.completions.create({ model, messages: user("Say something about valves."), stream: true, ...options }).withResponse();
  const out = { id: response.headers.get("x-request-id"), text: "", reason: "", usages: 0, chunks: 0 };
  for await (const chunk of data) {
    out.chunks++;
    out.model = chunk.model;
    if (chunk.usage) {
      out.usages++;
      out.prompt = chunk.usage.prompt_tokens;
      out.completion = chunk.usage.completion_tokens;
    }
    out.text += chunk.choices[0]?.delta?.content ?? "";
    out.reason = chunk.choices[0]?.finish_reason ?? out.reason;
  }
  return out;
}

// The client's own helper puts a streamed call of a tool together; the tool's result
// goes back and the answer to it comes.
async function tool(stream) {
  const messages = user("What is the weather in Paris?");
  let answer;
  if (stream) {
    answer = await app.chat.completions.stream({ model, messages, tools, tool_choice: "auto" }).finalChatCompletion();
  } else {
    answer = await app.chat.completions.create({ model, messages, tools, tool_choice: "auto" });
  }
  const message = answer.choices[0].message;
  const call = message.tool_calls[0];
  messages.push(message, { role: "tool", tool_call_id: call.id, content: "21 degrees" });
  const last = await app.chat.completions.create({ model, messages, tools });
  return { calls: message.tool_calls.length, id: call.id, name: call.function.name, arguments: call.function.arguments,
    reason: answer.choices[0].finish_reason, text: last.choices[0].message.content };
}

async function schema() {
  const r = await app.chat.completions.create({
    model, messages: user("Answer in the schema."),
    response_format: { type: "json_schema", json_schema: { name: "weather", strict: true,
      schema: { type: "object", properties: { city: { type: "string" }, degrees: { type: "integer" } }, required: ["city", "degrees"], additionalProperties: false } } },
  });
  return r.choices[0].message.content;
}

// As programs find out what an endpoint can do: the Responses API with tools and
// streaming, and chat with a tool that must be called when there is no such API.
async function probe() {
  const began = now();
  const statuses = app.statuses.length;
  let refusal;
  try {
    await app.responses.create({ model, input: "What is the weather in Paris?", stream: true,
      tools: [{ type: "function", ...tools[0].function, strict: false }] });
  } catch (err) {
    refusal = { status: err.status, type: err.type, code: err.code, message: err.error?.message ?? "" };
  }
  const took = now() - began;
  const r = await app.chat.completions.create({ model, messages: user("What is the weather in Paris?"), tools,
    tool_choice: { type: "function", function: { name: "get_weather" } } });
  return { ...refusal, took, tries: app.statuses.length - statuses - 1, called: r.choices[0].message.tool_calls[0].function.name };
}

async function cancelled() {
  const { data, response } = await app.chat.completions.create({ model, messages: user("Go on until I stop you."), stream: true, user: name }).withResponse();
  let tokens = 0;
  for await (const chunk of data) {
    if (chunk.choices[0]?.delta?.content && ++tokens === 5) break; // leaving the loop aborts the request
  }
  return { id: response.headers.get("x-request-id"), tokens, at: Date.now() };
}

// The engine breaks off in the middle.
async function broken() {
  const { data, response } = await app.chat.completions.create({ model, messages: user("Break off."), stream: true }).withResponse();
  const out = { id: response.headers.get("x-request-id"), tokens: 0, error: "" };
  try {
    for await (const chunk of data) if (chunk.choices[0]?.delta?.content) out.tokens++;
  } catch (err) {
    out.error = err.message;
  }
  return out;
}

// One request at a time: while a stream is open, another is told to come again, does
// so by itself, and gets in once the stream has ended.
async function concurrency() {
  const one = client("single", { maxRetries: 6 });
  const open = await one.chat.completions.create({ model, messages: user("Go on until I stop you."), stream: true });
  const second = one.chat.completions.create({ model, messages: user("Say something about valves.") });
  for await (const _ of open) {
    if (one.statuses.includes(429)) break; // leaving the loop aborts the request
  }
  const r = await second;
  return { statuses: one.statuses, text: r.choices[0].message.content };
}

async function rate() {
  await new Promise((wake) => setTimeout(wake, full - Date.now()));
  const slow = client("slow");
  const r = await slow.chat.completions.create({ model, messages: user("Say something about valves.") });
  return { statuses: slow.statuses, text: r.choices[0].message.content };
}

async function quota() {
  const poor = client("poor");
  try {
    await poor.chat.completions.create({ model, messages: user("Say something about valves.") });
  } catch (err) {
    return { status: err.status, type: err.type, code: err.code, statuses: poor.statuses };
  }
  return { statuses: poor.statuses };
}

async function embeddings() {
  const r = await app.embeddings.create({ model, input: "three little words" });
  return { vector: r.data[0].embedding, prompt: r.usage.prompt_tokens };
}

console.log(JSON.stringify({
  models: await models(),
  plain: await plain(),
  streamed: await streamed({}),
  counted: await streamed({ stream_options: { include_usage: true } }),
  tool: await tool(false),
  streamed_tool: await tool(true),
  schema: await schema(),
  probe: await probe(),
  cancelled: await cancelled(),
  broken: await broken(),
  concurrency: await concurrency(),
  quota: await quota(),
  embeddings: await embeddings(),
  rate: await rate(),
}));
