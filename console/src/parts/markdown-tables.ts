/** The tables of GitHub's Markdown, of which agents write many; the rest of that dialect is left out. */
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTable } from "micromark-extension-gfm-table";

/** A plugin of remark: it says to its processor what to tokenize and how to make nodes of that. */
export function tables(this: unknown): void {
  const data = (this as { data: () => Record<string, unknown[]> }).data();
  (data["micromarkExtensions"] ??= []).push(gfmTable());
  (data["fromMarkdownExtensions"] ??= []).push(gfmTableFromMarkdown());
}
