// @vitest-environment jsdom
import { act, createElement, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { describe, expect, it, vi } from "vitest";
import { LoginForm, type MissingLogin } from "../src/parts/login";

const login: MissingLogin = { source: "github", principal: "ada", scopes: ["repo"], url: "https://gw.example/connect/call_1" };
const nothing = async (): Promise<void> => undefined;

async function shown(node: ReactNode): Promise<HTMLElement> {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  const box = document.body.appendChild(document.createElement("div"));
  await act(async () => createRoot(box).render(node));
  return box;
}

describe("a call that waits for a login", () => {
  it("gives the link to whoever may log in", async () => {
    const box = await shown(createElement(LoginForm, { login, args: { n: 1 }, canReject: false, onReject: nothing }));
    const link = box.querySelector("a")!;
    expect([link.textContent, link.getAttribute("href"), link.getAttribute("rel")]).toEqual(["Log in", login.url, "noopener noreferrer"]);
    expect(box.textContent).toContain("github wants a login that allows repo");
    expect(box.querySelector("button")).toBeNull();
  });

  it.each([
    ["ada", "The call waits for ada."],
    [null, "The call waits for an administrator."],
    ["agent:fay", "The call waits for an administrator."],
  ])("tells others that it waits for %s", async (principal, words) => {
    const box = await shown(createElement(LoginForm, { login: { ...login, principal, url: null }, args: {}, canReject: false, onReject: nothing }));
    expect(box.querySelector("a")).toBeNull();
    expect(box.textContent).toContain(words);
  });

  it("can be rejected, and shows why that failed", async () => {
    const onReject = vi.fn(async () => {
      throw new Error("Too late.");
    });
    const box = await shown(createElement(LoginForm, { login, args: {}, canReject: true, onReject }));
    await act(async () => box.querySelector("button")!.click());
    expect(onReject).toHaveBeenCalledOnce();
    expect(box.querySelector("[role=alert]")!.textContent).toBe("Too late.");
  });
});
