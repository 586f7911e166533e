/**
 * What stands in for a page that could not be loaded or drawn, so that the frame around it stays. A page whose code the
 * gateway did not send (it is away, or was updated) is loaded anew as soon as the gateway is back, or at a click. Faults
 * of our own code are told as such, and are in the browser's log.
 */
import { Component, type ReactNode } from "react";
import { connection } from "../connection";
import { Fault } from "./states";

interface State {
  fault: Error | null;
}

export class Boundary extends Component<{ children: ReactNode }, State> {
  override state: State = { fault: null };
  private stop = (): void => {};

  static getDerivedStateFromError(fault: Error): State {
    return { fault };
  }

  override componentDidCatch(fault: Error): void {
    if (!isUnloaded(fault)) return;
    connection.suspect();
    this.stop = connection.onReturn(() => location.reload());
  }

  override componentWillUnmount(): void {
    this.stop();
  }

  override render(): ReactNode {
    const { fault } = this.state;
    if (fault === null) return this.props.children;
    const words = isUnloaded(fault) ? "This page could not be loaded from the gateway." : `This page has a fault: ${fault.message}`;
    return <Fault error={new Error(words)} onRetry={() => location.reload()} />;
  }
}

function isUnloaded(fault: Error): boolean {
  return /dynamically imported module|Importing a module script failed|preload CSS/i.test(fault.message);
}
