// A Cloudflare Worker with a guarded tool. Each request sends its own events and reads the circuits: nothing goes on after a request.
// With a client of `waitUntil` from "cloudflare:workers" you need no flush.
import { CircuitOpenError, Switchgear } from "@switchgear/client";

interface Context {
  waitUntil(work: Promise<unknown>): void;
}
interface Settings {
  readonly SWITCHGEAR_URL: string;
  readonly SWITCHGEAR_TOKEN: string;
}

let gear: Switchgear | undefined; // once for the isolate, whose circuits all of its requests share

export default {
  async fetch(request: Request, { SWITCHGEAR_URL, SWITCHGEAR_TOKEN }: Settings, context: Context): Promise<Response> {
    gear ??= new Switchgear({ url: SWITCHGEAR_URL, token: SWITCHGEAR_TOKEN, service: "edge", startWaitS: 1 });
    try {
      const answer = await gear.call("weather", () =>
        forecast(new URL(request.url).searchParams.get("city") ?? "Paris"),
      );
      return new Response(answer);
    } catch (error) {
      return new Response(error instanceof CircuitOpenError ? error.text : "the weather can't be asked", {
        status: 503,
      });
    } finally {
      context.waitUntil(gear.flush());
    }
  },
};

async function forecast(city: string): Promise<string> {
  const response = await fetch(`https://wttr.in/${encodeURIComponent(city)}?format=3`);
  if (!response.ok) throw Object.assign(new Error(response.statusText), { status: response.status });
  return response.text();
}
