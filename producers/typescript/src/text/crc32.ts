const TABLE = Uint32Array.from({ length: 256 }, (_, at) => {
  let value = at;
  for (let bit = 0; bit < 8; bit += 1) {
    value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return value;
});

/** Return the CRC-32 of a text in UTF-8, as zlib computes it. */
export function crc32(text: string): number {
  let sum = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) {
    sum = TABLE[(sum ^ byte) & 0xff]! ^ (sum >>> 8);
  }
  return (sum ^ 0xffffffff) >>> 0;
}
