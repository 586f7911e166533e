import { expect, it } from "vitest";
import { unitOf } from "../src/pages/settings/values";

it.each([
  ["responses.timeout", "s"],
  ["sources.local.call_timeout", "s"],
  ["hooks[0].timeout", "ms"],
  ["sources.local.tools.slow.timeout", "ms"],
  ["store.keep", "days"],
  ["server.max_body", "bytes"],
  ["programs.memory_mb", "MB"],
  ["agents.ada.context_tokens", "tokens"],
  ["server.port", ""],
  ["agents.ada.max_steps", ""],
])("says what the number under %s counts", (key, unit) => {
  expect(unitOf(key)).toBe(unit);
});
