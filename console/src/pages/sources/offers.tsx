import { useState, type ReactNode } from "react";
import { Link } from "wouter";
import { useData } from "../../data";
import { Section } from "../../parts/states";
import { counted, inOneLine } from "../../safe-text";
import { GetPrompt, ReadResource, type PromptArgument } from "./reading";
import type { SourceRecord } from "./records";

interface Resource {
  uri?: string;
  uriTemplate?: string;
  source: string;
  name?: string;
  description?: string;
  mimeType?: string;
}

interface Prompt {
  name: string;
  source: string;
  description?: string;
  arguments?: PromptArgument[];
}

const MOST = 100;

/** Tools, prompts, resources and templates of a source, by their public names. */
export function Offers({ source }: { source: SourceRecord }): ReactNode {
  const { name, tools } = source;
  const has = source.resources + source.templates > 0;
  const { data: resources } = useData<{ resources: Resource[] }>(has ? "/api/v1/resources?limit=1000" : null);
  const { data: templates } = useData<{ resourceTemplates: Resource[] }>(has ? "/api/v1/resources/templates" : null);
  const { data: prompts } = useData<{ prompts: Prompt[] }>(source.prompts.length > 0 ? "/api/v1/prompts" : null);
  const of = (prompt: string): Prompt | undefined => prompts?.prompts.find((one) => one.name === prompt && one.source === name);
  const shownTemplates = (templates?.resourceTemplates ?? []).filter((one) => one.source === name);
  return (
    <>
      <Section title={source.status === "up" || source.status === "faulty" ? "Tools" : "Tools of its last listing"} count={tools.length} nothing="It offers no tools now.">
        <Folded what="tool">
          {tools.map((tool) => (
            <li key={tool}>
              <Link href={`/tools/${encodeURIComponent(tool)}`}>
                <code>{inOneLine(tool, 80)}</code>
              </Link>
            </li>
          ))}
        </Folded>
      </Section>
      {source.prompts.length > 0 && (
        <Section title="Prompts" count={source.prompts.length}>
          <Folded what="prompt" isWide>
            {source.prompts.map((prompt) => (
              <li key={prompt}>
                <code>{inOneLine(prompt, 80)}</code> <span className="quiet">{inOneLine(of(prompt)?.description ?? "", 200)}</span> {of(prompt) !== undefined && <GetPrompt name={prompt} args={of(prompt)?.arguments ?? []} />}
              </li>
            ))}
          </Folded>
        </Section>
      )}
      {has && (
        <Section title="Resources" count={source.resources + source.templates}>
          <Folded what="resource" isWide>
            {[...(resources?.resources ?? []).filter((one) => one.source === name), ...shownTemplates].map((one) => (
              <li key={one.uri ?? one.uriTemplate}>
                <code>{inOneLine(one.uri ?? one.uriTemplate ?? "", 160)}</code>{" "}
                <span className="quiet">
                  {inOneLine([one.name, one.mimeType, one.description].filter((text) => text !== undefined).join(" · "), 240)}
                </span>{" "}
                {one.uri !== undefined && <ReadResource uri={one.uri} />}
              </li>
            ))}
          </Folded>
        </Section>
      )}
    </>
  );
}

/** Names in columns; what says more than its name, `isWide`, has a line of its own. */
function Folded({ what, isWide = false, children }: { what: string; isWide?: boolean; children: ReactNode[] }): ReactNode {
  const [isAll, setIsAll] = useState(false);
  return (
    <>
      <ul className={isWide ? "names wide" : "names"}>{isAll ? children : children.slice(0, MOST)}</ul>
      {!isAll && children.length > MOST && (
        <button type="button" className="plain" onClick={() => setIsAll(true)}>
          Show {counted(children.length - MOST, `more ${what}`)}
        </button>
      )}
    </>
  );
}
