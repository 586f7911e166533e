/**
 * What a model says, as it comes: `withEvent(answer, data)` takes the events of `POST /v1/responses` with `stream`. The
 * order of the output is kept: text and calls as the model made them. Pure.
 */

export interface Said {
  is: "text";
  id: string;
  text: string;
}

export interface Made {
  is: "call";
  id: string;
  name: string;
  arguments: string;
  output: string | null;
  error: string | null;
  status: string;
  /** It waits for somebody: in Waiting. */
  needsApproval: boolean;
}

export interface Answer {
  id: string | null;
  status: string;
  parts: readonly (Said | Made | null)[];
  error: string | null;
  inputTokens: number | null;
  outputTokens: number | null;
}

export const NOTHING: Answer = { id: null, status: "in_progress", parts: [], error: null, inputTokens: null, outputTokens: null };

type Data = Record<string, unknown>;

export function withEvent(answer: Answer, data: Data): Answer {
  const index = typeof data["output_index"] === "number" ? data["output_index"] : -1;
  switch (data["type"]) {
    case "response.output_item.added":
    case "response.output_item.done":
      return withPart(answer, index, partOf(data["item"] as Data, answer.parts[index]));
    case "response.output_text.delta": {
      const part = answer.parts[index];
      return part?.is === "text" ? withPart(answer, index, { ...part, text: part.text + String(data["delta"] ?? "") }) : answer;
    }
    case "response.mcp_call_arguments.done": {
      const part = answer.parts[index];
      return part?.is === "call" ? withPart(answer, index, { ...part, arguments: String(data["arguments"] ?? "") }) : answer;
    }
    case "error":
      return { ...answer, status: "failed", error: messageOf(data) };
    default:
      return typeof data["response"] === "object" && data["response"] !== null ? withResponse(answer, data["response"] as Data) : answer;
  }
}

function withResponse(answer: Answer, response: Data): Answer {
  const usage = response["usage"] as { input_tokens?: number; output_tokens?: number } | null | undefined;
  return {
    ...answer,
    id: typeof response["id"] === "string" ? response["id"] : answer.id,
    status: String(response["status"] ?? answer.status),
    error: response["error"] === null || response["error"] === undefined ? answer.error : messageOf(response["error"] as Data),
    inputTokens: usage?.input_tokens ?? answer.inputTokens,
    outputTokens: usage?.output_tokens ?? answer.outputTokens,
  };
}

function withPart(answer: Answer, index: number, part: Said | Made | null): Answer {
  if (index < 0) return answer;
  const parts = [...answer.parts];
  while (parts.length < index) parts.push(null);
  parts[index] = part;
  return { ...answer, parts };
}

function partOf(item: Data, before: Said | Made | null | undefined): Said | Made | null {
  const id = String(item["id"] ?? "");
  if (item["type"] === "message") {
    const content = (item["content"] as { text?: string }[] | undefined) ?? [];
    const text = content.map((part) => part.text ?? "").join("");
    return { is: "text", id, text: text === "" && before?.is === "text" ? before.text : text };
  }
  if (item["type"] === "mcp_call" || item["type"] === "mcp_approval_request") {
    return {
      is: "call",
      id,
      name: String(item["name"] ?? ""),
      arguments: String(item["arguments"] ?? ""),
      output: typeof item["output"] === "string" ? item["output"] : null,
      error: item["error"] === null || item["error"] === undefined ? null : messageOf(item["error"] as Data),
      status: String(item["status"] ?? "in_progress"),
      needsApproval: item["type"] === "mcp_approval_request",
    };
  }
  return null;
}

function messageOf(error: Data): string {
  if (typeof error["message"] === "string") return error["message"];
  const content = error["content"] as { text?: string }[] | undefined;
  return content?.map((part) => part.text ?? "").join("\n") || "It failed, and did not say why.";
}
