/** The class of an outage that a text reports in the words of operating systems, HTTP and common clients. */
import type { ErrorClass } from "../breaker/policy.js";
import { matches } from "../text/glob.js";
import { isRefusal } from "./tool-failure.js";

/** The most characters of a text to look at. */
export const MAX_TEXT = 2_000;

interface Rule {
  /** Whatever the case of the letters. */
  readonly words: RegExp;
  /** Names of Python's exceptions where a text names one as raised: before a colon, as `repr`, or at its end. */
  readonly raised?: RegExp;
  readonly errorClass: ErrorClass;
}

/** Return the patterns that common HTTP clients and model SDKs use for a status. */
function status(codes: string): string {
  return (
    `\\b${codes} (?:client|server) error\\b|\\bhttp error ${codes}\\b|\\b${codes}, message=|\\b(?:client|server) error '${codes}\\b` +
    `|\\bstatus code:? ${codes}\\b|\\berror code: ${codes} - |\\b${codes} from (?:the )?upstream\\b`
  );
}

function raised(names: string): RegExp {
  return new RegExp(String.raw`(?<![\w.])(?:\w+\.)*(?:${names})(?=:|\(|[.\s]*$)`);
}

const RULES: readonly Rule[] = [
  {
    words: new RegExp(`\\brate limit(?:ed| exceeded| reached)\\b|\\btoo many requests\\b|${status("429")}`, "i"),
    errorClass: "rate_limited",
  },
  {
    words: new RegExp(
      String.raw`\b504 gateway time-?out\b|\bE(?:SOCKET)?TIMEDOUT\b|\bdeadline exceeded\b|\btimed out\b|\bi/o timeout\b|\bWinError 10060\b` +
        String.raw`|\btimeout of [0-9]+ ?ms exceeded\b|${status("(?:408|504)")}`,
      "i",
    ),
    raised: raised(
      "TimeoutError|(?:Connect|Read|Write|Pool)Timeout(?:Error)?|TimeoutException|APITimeoutError|ServerTimeoutError",
    ),
    errorClass: "timeout",
  },
  {
    words: new RegExp(
      String.raw`\b500 internal server error\b|\b502 bad gateway\b|\b503 service (?:temporarily )?unavailable\b|${status("5[0-9]{2}")}`,
      "i",
    ),
    errorClass: "server",
  },
  {
    words: new RegExp(
      // operating systems, Windows and macOS too
      String.raw`\bconnection (?:refused|reset|aborted)\b|\bno route to host\b|\bnetwork is unreachable\b|\bWinError 100(?:5[134]|6[145])\b` +
        String.raw`|\bname or service not known\b|\btemporary failure in name resolution\b|\bnodename nor servname\b|\bgetaddrinfo failed\b` +
        String.raw`|\bcould not resolve host\b|\bno such host\b` +
        // Node
        String.raw`|\bE(?:CONNREFUSED|CONNRESET|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN)\b|\bsocket hang up\b|\bfetch failed\b(?!:)` +
        // httpx, requests and urllib3, http.client, aiohttp, curl
        String.raw`|\ball connection attempts failed\b|\bpeer closed connection\b|\bserver disconnected\b|\bmax retries exceeded with url\b` +
        String.raw`|\bremote end closed connection\b|\bIncompleteRead\(|\bcannot connect to host\b|\bconnect call failed\b` +
        String.raw`|\bresponse payload is not completed\b|\bempty reply from server\b` +
        // MCP's SDKs, whose number alone says only that the server failed
        String.raw`|\bMCP error -32000: Connection closed\b`,
      "i",
    ),
    raised: raised(
      "Connection(?:Refused|Reset|Aborted)?Error|BrokenPipeError|ConnectError|ReadError|WriteError|RemoteProtocolError" +
        "|ServerDisconnectedError|ClientConnector(?:DNS)?Error|NewConnectionError|APIConnectionError",
    ),
    errorClass: "transport",
  },
];

/** Return `policy` for a text with a refusal of another guard, else null. The rule of tools without another. */
export function refusalInText(text: string): ErrorClass | null {
  return isRefusal(text.slice(0, MAX_TEXT)) ? "policy" : null;
}

/**
 * Return the class of an outage that a text reports, or null. A refusal of another guard, which may quote an outage, is `policy`.
 *
 * Use it as `byText` of `classifyResult`. Don't use it for tools that return other people's text, such as tools that run code or read
 * pages.
 */
export function outageInText(text: string): ErrorClass | null {
  const seen = text.slice(0, MAX_TEXT);
  return (
    refusalInText(seen) ?? RULES.find((rule) => rule.words.test(seen) || rule.raised?.test(seen))?.errorClass ?? null
  );
}

/** Return the rule for the texts of a tool's failed results. `outagesInText` are globs of the tools whose texts report outages. */
export function textRule(tool: string, outagesInText: readonly string[]): (text: string) => ErrorClass | null {
  return outagesInText.some((glob) => matches(glob, tool)) ? outageInText : refusalInText;
}
