// @vitest-environment jsdom
import { act, createElement } from "react";
import { createRoot } from "react-dom/client";
import { describe, expect, it, vi } from "vitest";
import type { ToolCallData } from "@jackfield/react";
import { Question } from "../src/tools/question";

const CALL: ToolCallData = {
  type: "tool_call",
  toolCallId: "call_1",
  toolName: "elicitation",
  args: { message: "How many?", schema: { type: "object", properties: { count: { type: "integer", default: 2 } } }, tool: "order" },
  result: null,
  status: "requires_action",
  runId: null,
};

async function shown(submit: (result: unknown) => Promise<void>): Promise<HTMLElement> {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  await import("../src/forms/form"); // the part that is loaded when it is needed
  const box = document.body.appendChild(document.createElement("div"));
  await act(async () => createRoot(box).render(createElement(Question, { call: CALL, canAnswer: true, submit, isSending: false })));
  await vi.waitFor(async () => {
    await act(async () => undefined);
    expect(box.querySelector("form")).not.toBeNull();
  }, 10_000);
  return box;
}

describe("a question of an MCP server", () => {
  it.each([
    ["Send", { action: "accept", content: { count: 2 } }],
    ["Decline", { action: "decline" }],
  ])("is answered by %s as the protocol has it", async (button, answer) => {
    const submit = vi.fn(async () => undefined);
    const box = await shown(submit);
    expect(box.textContent).toContain("How many?");
    await act(async () => [...box.querySelectorAll("button")].find((one) => one.textContent === button)?.click());
    expect(submit).toHaveBeenCalledWith(answer);
  });
});
