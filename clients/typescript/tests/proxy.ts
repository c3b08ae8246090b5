// A connection that can be cut: a proxy between a client and its control plane.
import { createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";

export interface Proxy extends AsyncDisposable {
  url: string;
  /** Whether the response to this request is lost on its way. */
  swallows: (request: IncomingMessage) => boolean;
  /** Cuts all connections that are open. */
  cut(): void;
}

export async function proxyTo(target: string): Promise<Proxy> {
  const server = createServer((asked, response) => {
    const headers = { ...asked.headers, host: new URL(target).host };
    const forwarded = request(`${target}${asked.url}`, { method: asked.method, headers }, (answer) => {
      if (proxy.swallows(asked)) {
        answer.resume();
        asked.socket.destroy();
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    forwarded.on("error", () => asked.socket.destroy());
    response.on("close", () => forwarded.destroy());
    asked.pipe(forwarded);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: Proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    swallows: () => false,
    cut: () => server.closeAllConnections(),
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return proxy;
}
