// @vitest-environment jsdom
import { act, createElement, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { describe, expect, it, vi } from "vitest";
import { ApprovalForm } from "../src/parts/approval";
import { answerLink, isLoopback } from "../src/parts/phone";

async function shown(node: ReactNode): Promise<HTMLElement> {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  const box = document.body.appendChild(document.createElement("div"));
  await act(async () => createRoot(box).render(node));
  return box;
}

describe("what a person is asked to allow", () => {
  it("is shown whole, however long, deep or wide it is", async () => {
    const long = "x".repeat(30_000) + "THE END";
    const wide = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`field${n}`, n]));
    const args = { long, wide, deep: { a: { b: { c: { d: ["AT THE BOTTOM"] } } } }, ["k".repeat(300) + "KEY"]: 1 };
    const nothing = async (): Promise<void> => undefined;
    const box = await shown(createElement(ApprovalForm, { args, canAnswer: true, onApprove: nothing, onReject: nothing }));
    for (const part of ["THE END", "field39", "AT THE BOTTOM", "KEY"]) expect(box.textContent).toContain(part);
    expect(box.querySelector("details")).toBeNull();
    expect([...box.querySelectorAll("button")].map((button) => button.textContent)).toEqual(["Edit", "Reject", "Approve"]);
  });
});

describe("a link for another device", () => {
  it.each([
    ["http://127.0.0.1:8420", true],
    ["http://localhost:8420/#/x", true],
    ["http://[::1]:8420", true],
    ["http://192.168.1.5:8420", false],
    ["https://gateway.example", false],
    ["", false],
  ])("knows whether %s leads every device to itself", (url, is) => expect(isLoopback(url)).toBe(is));

  it("takes the address that this page came from where the gateway knows only its own", () => {
    const callback = "http://127.0.0.1:8420/api/v1/callbacks/call_1.abc";
    expect(answerLink(callback, "http://192.168.1.5:8420")).toBe("http://192.168.1.5:8420/#/answer/call_1.abc");
    expect(answerLink(callback, "http://localhost:8420")).toBe("http://127.0.0.1:8420/#/answer/call_1.abc");
    expect(answerLink(callback.replace("http://127.0.0.1:8420", "https://gw.example"), "http://10.0.0.1")).toBe("https://gw.example/#/answer/call_1.abc");
  });
});
