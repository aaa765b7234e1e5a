/** Return a new identifier that sorts by the time it is made (UUID version 7, RFC 9562). */
export function mintId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  let time = Date.now();
  for (let at = 5; at >= 0; at -= 1) {
    bytes[at] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** Return an identifier of this process or page, such as `planner@js-1f3a…`. */
export function mintEmitterId(service: string): string {
  return `${service === "" ? "process" : service}@js-${mintId().slice(-12)}`;
}
