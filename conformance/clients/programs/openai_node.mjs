// OpenAI's Node SDK: its stream accumulator with reasoning and two calls at once, an image, tools that the gateway
// runs, and a second turn. Prints one line of JSON: what held.
import OpenAI from "openai";

const { JACKFIELD_URL, JACKFIELD_KEY, PIXEL } = process.env;
const client = new OpenAI({ baseURL: `${JACKFIELD_URL}/v1`, apiKey: JACKFIELD_KEY, maxRetries: 0 });
const weather = {
  type: "function",
  name: "get_weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
  strict: true,
};
const checks = {};

const run = async (body) => {
  const kinds = [];
  const stream = client.responses.stream({ model: "default", ...body });
  for await (const event of stream) kinds.push(event.type);
  return [await stream.finalResponse(), kinds];
};

const asked = [{ role: "user", content: "How is the weather?" }];
const [first, kinds] = await run({ input: asked, tools: [weather] });
const calls = first.output.filter((item) => item.type === "function_call");
checks["two calls at once"] = calls.length === 2;
checks["reasoning, by OpenAI's names"] =
  kinds.includes("response.reasoning_text.delta") &&
  first.output.some((item) => item.type === "reasoning" && item.content?.[0]?.text.startsWith("Two cities"));
checks["no events of our own"] = !kinds.some((kind) => kind.startsWith("jackfield:"));

const results = calls.map((call) => ({
  type: "function_call_output",
  call_id: call.call_id,
  output: `${JSON.parse(call.arguments).city}: 20 degrees`,
}));
const [second] = await run({ input: results, tools: [weather], previous_response_id: first.id });
checks["both results reach the model"] = second.output_text.includes("Lisbon: 20") && second.output_text.includes("Porto: 20");

const [third] = await run({ input: "What did you say?", previous_response_id: second.id });
checks["second turn"] = third.output_text.startsWith("I said: All done.");

const image = [{ role: "user", content: [{ type: "input_text", text: "Hello" }, { type: "input_image", image_url: PIXEL, detail: "auto" }] }];
const [seen] = await run({ input: image, reasoning: { summary: "auto" } });
checks["an image"] = seen.output_text.includes("I see 1 images");
checks["a summary of the reasoning"] = seen.output.some((item) => item.type === "reasoning" && item.summary.length === 1);

const [shot, shotKinds] = await run({ input: "What is on the screen?", tools: [{ type: "mcp", server_label: "jackfield" }] });
checks["a tool's image"] = shot.output_text.includes("Images: 1.");
checks["server-run tools"] = shotKinds.includes("response.mcp_call.completed");

const counted = await client.responses.inputTokens.count({ model: "default", input: "Hello" });
checks["input_tokens"] = counted.input_tokens > 0;

console.log(JSON.stringify(checks));
