import { Connection, type ConnectionOptions } from "@jackfield/client";

export type ClientOptions = ConnectionOptions;

/** The HTTP client of a page: it shows by itself what takes long or is lost, so nothing is cut off or sent again. */
export class Client extends Connection {
  constructor(options: ClientOptions = {}) {
    super({ url: "", timeout: 0, retries: 0, ...options });
  }
}
