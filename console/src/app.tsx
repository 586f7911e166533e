import { lazy, Suspense, type ReactNode } from "react";
import { Redirect, Route, Router, Switch } from "wouter";
import { useHashLocation } from "wouter/use-hash-location";
import { SWRConfig } from "swr";
import { ToolUIProvider, type GatewayError, type ToolRegistry } from "@jackfield/react";
import { Loading, NotHere } from "./parts/states";
import { Shell } from "./parts/shell";
import { SignIn } from "./parts/sign-in";
import { IdentityContext, useIdentity, type Known } from "./identity";
import { useOwnTools } from "./own-tools";
import { SpacePage, SpacesPage } from "./pages/spaces";
import { Fallback } from "./tools/fallback";
import { SHIPPED } from "./tools/shipped";

const ToolsPage = lazy(() => import("./pages/tools"));
const WaitingPage = lazy(() => import("./pages/waiting"));
const RunsPage = lazy(() => import("./pages/runs"));
const AgentsPage = lazy(() => import("./pages/agents"));
const AnswerPage = lazy(() => import("./pages/answer"));
const ANSWER = /^\/answer\/([^/]+)$/;
const SHIPPED_TOOLS = { by_name: SHIPPED, Fallback };

/** A signed link shows its call to anybody who has it; everything else requires signing in. */
export function App(): ReactNode {
  const [place] = useHashLocation();
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
  if (identity.is === "asking") return <Loading what="Jackfield" />;
  // Reload on sign-in, so that no cached data of the previous user is shown.
  if (identity.is === "unknown") return <SignIn fault={identity.fault} onSignedIn={() => location.reload()} />;
  const onError = (fault: GatewayError): void => void (fault.status === 401 && identity.refresh());
  return (
    <SWRConfig value={{ onError }}>
      <IdentityContext value={identity}>
        <Pages identity={identity} tools={tools} />
      </IdentityContext>
    </SWRConfig>
  );
}

function Pages({ identity, tools }: { identity: Known; tools: ToolRegistry }): ReactNode {
  return (
    <Router hook={useHashLocation}>
      <ToolUIProvider tools={tools}>
        <Shell identity={identity}>
          <Suspense fallback={<Loading what="the page" />}>
            <Switch>
              <Route path="/">
                <Redirect to="/spaces" />
              </Route>
              <Route path="/spaces" component={SpacesPage} />
              <Route path="/spaces/:id">{({ id }) => <SpacePage key={id} id={id} />}</Route>
              <Route path="/tools/:name?">{({ name }) => <ToolsPage name={name} />}</Route>
              <Route path="/waiting/:id?">{({ id }) => <WaitingPage id={id} />}</Route>
              <Route path="/runs/:id?">{({ id }) => <RunsPage id={id} />}</Route>
              <Route path="/agents/:id?">{({ id }) => <AgentsPage id={id} />}</Route>
              <Route>
                <NotHere />
              </Route>
            </Switch>
          </Suspense>
        </Shell>
      </ToolUIProvider>
    </Router>
  );
}
