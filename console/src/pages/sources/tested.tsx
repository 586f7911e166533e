import type { ReactNode } from "react";
import { Badge } from "../../parts/badge";
import { counted, inOneLine, safeText } from "../../safe-text";
import type { SourceTest, ToolTest } from "./records";

const MOST = 200;

/** What a test of a source found: what it would offer, or why not. */
export function Tested({ result }: { result: SourceTest }): ReactNode {
  const { ok, error, tools, resources, prompts, faults, stderr } = result;
  return (
    <section className={ok ? "tested" : "tested trouble"} aria-label="Result of the test" role="status">
      {ok ? (
        <p>
          <Badge tone="good">works</Badge> It would offer {counted(tools.length, "tool")}, {counted(resources, "resource")} and {counted(prompts, "prompt")}.
        </p>
      ) : (
        <p className="text">
          <Badge tone="bad">does not work</Badge> {safeText(error ?? "It did not say why.", 4000)}
        </p>
      )}
      {faults.map((fault) => (
        <p key={fault} className="text">
          {safeText(fault, 2000)}
        </p>
      ))}
      {tools.length > 0 && (
        <dl className="offered" tabIndex={0} aria-label="Tools that it would offer">
          {tools.slice(0, MOST).map((tool) => (
            <div key={tool.name}>
              <dt>
                <code>{inOneLine(tool.name, 80)}</code>
              </dt>
              <dd className="quiet">{inOneLine(tool.description, 300)}</dd>
            </div>
          ))}
          {tools.length > MOST && <p className="quiet">and {counted(tools.length - MOST, "more tool")}.</p>}
        </dl>
      )}
      {stderr.length > 0 && (
        <pre className="code" tabIndex={0} aria-label="stderr of the test">
          {stderr.map((line) => safeText(line, 2000)).join("\n")}
        </pre>
      )}
    </section>
  );
}

/** What a test of an HTTP tool found: what it would be called, and whether its server takes connections. */
export function ToolTested({ result }: { result: ToolTest }): ReactNode {
  const { ok, error, name, notices, server } = result;
  return (
    <section className={ok ? "tested" : "tested trouble"} aria-label="Result of the test" role="status">
      {ok ? (
        <p>
          <Badge tone="good">can be reached</Badge> {inOneLine(server ?? "", 200)} takes connections. Nothing was sent: whether it answers well is seen by calling the tool.
        </p>
      ) : (
        <p className="text">
          <Badge tone="bad">cannot be reached</Badge> {safeText(error ?? "It did not say why.", 4000)}
        </p>
      )}
      <p>
        It would be called <code>{inOneLine(name, 80)}</code>.
      </p>
      {notices.map((notice) => (
        <p key={notice} className="text">
          {safeText(notice, 2000)}
        </p>
      ))}
    </section>
  );
}
