import { lazy, Suspense, type ReactNode } from "react";
import { Redirect, Route, Router, Switch } from "wouter";
import { useHashLocation } from "wouter/use-hash-location";
import { ToolUIProvider } from "@jackfield/react";
import { Loading, NotHere } from "./parts/states";
import { Shell } from "./parts/shell";
import { SignIn } from "./parts/sign-in";
import { useIdentity } from "./identity";
import { useOwnTools } from "./own-tools";
import { SpacePage, SpacesPage } from "./pages/spaces";

const ToolsPage = lazy(() => import("./pages/tools"));
const WaitingPage = lazy(() => import("./pages/waiting"));
const RunsPage = lazy(() => import("./pages/runs"));
const AgentsPage = lazy(() => import("./pages/agents"));

/** Who is not signed in sees how to; everybody else what they may. */
export function App(): ReactNode {
  const identity = useIdentity();
  const tools = useOwnTools(identity.is === "known");
  if (identity.is === "asking") return <Loading what="Jackfield" />;
  if (identity.is === "unknown") return <SignIn fault={identity.fault} onSignedIn={identity.refresh} />;
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
              <Route path="/spaces/:id">{({ id }) => <SpacePage key={id} id={id} identity={identity} />}</Route>
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
