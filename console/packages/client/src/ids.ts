/** A random id. Not `crypto.randomUUID`, which pages on plain HTTP do not have. */
export function newId(prefix: string, bytes = 14): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return `${prefix}_${[...random].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
