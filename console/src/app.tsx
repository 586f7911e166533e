import { lazy, Suspense, useEffect, type ReactNode } from "react";
import { Redirect, Route, Router, Switch } from "wouter";
import { SWRConfig } from "swr";
import { ToolUIProvider, type GatewayError, type ToolRegistry } from "@jackfield/react";
import { usePath, useSearchText } from "./address";
import { connection } from "./connection";
import { AWAY } from "./data";
import { Boundary } from "./parts/boundary";
import { Loading, NotHere } from "./parts/states";
import { Shell } from "./parts/shell";
import { SignIn } from "./parts/sign-in";
import { IdentityContext, useIdentity, type Known } from "./identity";
import { useOwnTools } from "./own-tools";
import { Fallback } from "./tools/fallback";
import { SHIPPED } from "./tools/shipped";

const OverviewPage = lazy(() => import("./pages/overview"));
const CallsPage = lazy(() => import("./pages/calls"));
const SpacesPage = lazy(() => import("./pages/spaces"));
const ToolsPage = lazy(() => import("./pages/tools"));
const WaitingPage = lazy(() => import("./pages/waiting"));
const RunsPage = lazy(() => import("./pages/runs"));
const AgentsPage = lazy(() => import("./pages/agents"));
const SourcesPage = lazy(() => import("./pages/sources"));
const AccessPage = lazy(() => import("./pages/access"));
const SettingsPage = lazy(() => import("./pages/settings"));
const AnswerPage = lazy(() => import("./pages/answer"));
const ANSWER = /^\/answer\/([^/]+)$/;
const SHIPPED_TOOLS = { by_name: SHIPPED, Fallback };

/** A signed link shows its call to anybody who has it; everything else requires signing in. */
export function App(): ReactNode {
  const [place] = usePath();
  const token = ANSWER.exec(place)?.[1];
  if (token === undefined) return <Console />;
  return (
    <ToolUIProvider tools={SHIPPED_TOOLS}>
      <Suspense fallback={<Loading what="the question" />}>
        <AnswerPage key={token} token={decodeURIComponent(token)} />
      </Suspense>
    </ToolUIProvider>
  );
}

function Console(): ReactNode {
  const identity = useIdentity();
  const tools = useOwnTools(identity.is === "known");
  const refresh = identity.is === "known" ? identity.refresh : null;
  useEffect(() => (refresh === null ? undefined : connection.onSignedOut(refresh)), [refresh]);
  if (identity.is === "asking") return <Loading what="Jackfield" />;
  // Reload on sign-in, so that no cached data of the previous user is shown.
  if (identity.is === "unknown") return <SignIn fault={identity.fault} onSignedIn={() => location.reload()} />;
  const onError = (fault: GatewayError): void => {
    if (fault.status === 401) identity.refresh();
    if (fault.status === 0) connection.suspect();
  };
  return (
    <SWRConfig value={{ ...AWAY, onError }}>
      <IdentityContext value={identity}>
        <Pages identity={identity} tools={tools} />
      </IdentityContext>
    </SWRConfig>
  );
}

function Pages({ identity, tools }: { identity: Known; tools: ToolRegistry }): ReactNode {
  const path = usePath()[0].split("/")[1];
  return (
    <Router hook={usePath} searchHook={useSearchText}>
      <ToolUIProvider tools={tools}>
        <Shell identity={identity}>
          <Boundary key={path}>
            <Suspense fallback={<Loading what="the page" />}>
              <Switch>
                <Route path="/">
                  <Redirect to="/overview" replace />
                </Route>
                <Route path="/overview" component={OverviewPage} />
                <Route path="/calls/:id?">{({ id }) => <CallsPage id={id} />}</Route>
                <Route path="/spaces/:id?">{({ id }) => <SpacesPage id={id} />}</Route>
                <Route path="/tools/:name?">{({ name }) => <ToolsPage name={name} />}</Route>
                <Route path="/waiting/:id?">{({ id }) => <WaitingPage id={id} />}</Route>
                <Route path="/runs/:id?">{({ id }) => <RunsPage id={id} />}</Route>
                <Route path="/agents/:id?">{({ id }) => <AgentsPage id={id} />}</Route>
                <Route path="/sources/:name?">{({ name }) => <SourcesPage name={name} />}</Route>
                <Route path="/access/:part?/:name?">{({ part, name }) => <AccessPage part={part} name={name} />}</Route>
                <Route path="/settings/:part?/:name?">{({ part, name }) => <SettingsPage part={part} name={name} />}</Route>
                <Route>
                  <NotHere />
                </Route>
              </Switch>
            </Suspense>
          </Boundary>
        </Shell>
      </ToolUIProvider>
    </Router>
  );
}
