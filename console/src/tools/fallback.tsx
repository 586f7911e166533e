import { lazy, Suspense, type ReactNode } from "react";
import type { ToolProps } from "@jackfield/react";
import { Copy } from "../parts/copy";
import { useHasApp } from "../apps/known";
import { LongText, Tree } from "../parts/tree";
import { inOneLine } from "../safe-text";
import { Images, imagesIn } from "./images";
import { rowsOf, Table } from "./table";

const AppView = lazy(() => import("../apps/app-view"));
const SchemaForm = lazy(() => import("./schema-form"));

/** For tools without a registered component: arguments and result, and a form if an answer is needed. */
export function Fallback(props: ToolProps): ReactNode {
  const { call, canAnswer } = props;
  const hasApp = useHasApp(call.toolName);
  if (canAnswer) {
    return (
      <>
        <Asked args={call.args} />
        <Suspense fallback={<p className="quiet">Loading the form …</p>}>
          <SchemaForm {...props} />
        </Suspense>
      </>
    );
  }
  return (
    <>
      {call.status === "error" && <p className="fault">
          <LongText text={call.error ?? inOneLine(call.result)} />
        </p>}
      {hasApp && call.status !== "requires_action" ? (
        <Suspense fallback={<p className="quiet">Loading the app …</p>}>
          <AppView call={call} />
        </Suspense>
      ) : (
        call.status === "complete" && <Outcome value={call.result} />
      )}
      <details>
        <summary>
          Details <span className="quiet">{inOneLine(call.args, 80)}</span>
        </summary>
        <h4>Arguments</h4>
        <Tree value={call.args} />
        {hasApp && call.status === "complete" && (
          <>
            <h4>Result</h4>
            <Outcome value={call.result} />
          </>
        )}
        <div className="copies">
          <Copy text={JSON.stringify(call.args, null, 2)}>Copy arguments</Copy>
          {call.status === "complete" && <Copy text={JSON.stringify(call.result, null, 2)}>Copy result</Copy>}
        </div>
      </details>
    </>
  );
}

/** Shows a `question` argument as text. */
function Asked({ args }: { args: unknown }): ReactNode {
  const { question, ...rest } = (args ?? {}) as Record<string, unknown>;
  if (typeof question !== "string") return <Tree value={args} />;
  return (
    <>
      <p className="question">
        <LongText text={question} />
      </p>
      {Object.keys(rest).length > 0 && <Tree value={rest} />}
    </>
  );
}

/** The result of a call: text, images, a table or a tree. */
export function Outcome({ value }: { value: unknown }): ReactNode {
  const images = imagesIn(value);
  if (images.length > 0) return <Images images={images} />;
  const text = textIn(value);
  if (text !== null) return <LongText text={text} />;
  const table = rowsOf(value);
  return table === null ? <Tree value={value} /> : <Table {...table} />;
}

/** The text of MCP content blocks, if the result consists of them. */
function textIn(value: unknown): string | null {
  if (typeof value === "string") return value;
  const content = (value as { content?: unknown } | null)?.content;
  if (!Array.isArray(content)) return null;
  const texts = content.map((block: unknown) => (block as { text?: unknown } | null)?.text);
  return texts.length > 0 && texts.every((text) => typeof text === "string") ? texts.join("\n") : null;
}
