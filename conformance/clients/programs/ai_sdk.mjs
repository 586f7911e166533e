// Vercel's AI SDK with its OpenAI provider (the Responses API): streamText with tools over several steps, an image,
// reasoning, and a second turn, which it makes of references to stored items. Prints what held.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { JACKFIELD_URL, JACKFIELD_KEY, PIXEL } = process.env;
const requests = [];
const openai = createOpenAI({
  baseURL: `${JACKFIELD_URL}/v1`,
  apiKey: JACKFIELD_KEY,
  fetch: (url, init) => {
    requests.push(JSON.parse(init.body));
    return fetch(url, init);
  },
});
const model = openai.responses("default");
const tools = {
  get_weather: tool({
    description: "How the weather is",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `${city}: 20 degrees`,
  }),
};
const checks = {};
// The provider asks for no reasoning of a model whose name it does not know, unless it is told to.
const providerOptions = { openai: { reasoningSummary: "auto", reasoningEffort: "low", forceReasoning: true } };

const messages = [{ role: "user", content: "How is the weather?" }];
const first = streamText({ model, messages, tools, stopWhen: stepCountIs(5), providerOptions, maxRetries: 0 });
await first.consumeStream();
const text = await first.text;
const steps = await first.steps;
checks["two calls at once"] = steps[0].toolCalls.length === 2;
checks["both results reach the model"] = text.includes("Lisbon: 20") && text.includes("Porto: 20");
checks["reasoning"] = steps[0].reasoningText?.startsWith("Two cities") ?? false;

const earlier = (await first.response).messages;
messages.push(...earlier, { role: "user", content: "What did you say?" });
const second = await generateText({ model, messages, tools, providerOptions, maxRetries: 0 });
checks["second turn"] = second.text.startsWith("I said: All done.");
checks["by references to stored items"] = requests.at(-1).input.some((item) => item.type === "item_reference");

const [, type, data] = PIXEL.match(/^data:([^;]+);base64,(.*)$/);
const content = [{ type: "text", text: "Hello" }, { type: "image", image: Buffer.from(data, "base64"), mediaType: type }];
const seen = await generateText({ model, messages: [{ role: "user", content }], maxRetries: 0 });
checks["an image"] = seen.text.includes("I see 1 images");

console.log(JSON.stringify(checks));
