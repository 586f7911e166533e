// Control, bidirectional and invisible characters.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
const MOST = 20_000;

/** Untrusted text for display: hidden characters are made visible, and long text is truncated. */
export function safeText(text: string, most = MOST): string {
  const cut = text.length > most ? `${text.slice(0, most)}… (${counted(text.length - most, "more character")})` : text;
  return cut.replace(HIDDEN, (sign) => (sign === "\u200d" ? sign : `⟨U+${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`));
}

/** `1 call`, `2 calls`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;
}

/** Any value on one line, for titles and summaries. */
export function inOneLine(value: unknown, most = 120): string {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const line = text.replace(/\s+/g, " ").trim();
  return safeText(line.length > most ? `${line.slice(0, most)}…` : line, most + 1);
}
