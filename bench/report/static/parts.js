const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_`{|}~";
// After a mark five letters are four bytes; what lacks at the end is filled up, and taken away again.
const unpack = async (packed) => {
  const length = packed.length - 1, lacks = (5 - length % 5) % 5, bytes = new DataView(new ArrayBuffer((length + lacks) / 5 * 4));
  const digits = new Map([...LETTERS].map((letter, digit) => [letter, digit]));
  for (let at = 0, number = 0; at < length + lacks; at++) {
    number = number * 85 + (at < length ? digits.get(packed[at + 1]) : 84);
    if (at % 5 === 4) {
      bytes.setUint32((at - 4) / 5 * 4, number);
      number = 0;
    }
  }
  const whole = new Blob([new Uint8Array(bytes.buffer, 0, bytes.byteLength - lacks)]);
  return new Response(whole.stream().pipeThrough(new DecompressionStream("deflate"))).text();
};
(() => {
  const begin = () => { wireTables(); wireRows(); };
  const packed = document.currentScript.previousElementSibling;
  if (packed.id !== "parts") {
    begin();
    return;
  }
  const putBack = async () => {
    const parts = JSON.parse(await unpack(packed.textContent));
    const places = document.querySelectorAll("i.packed");
    if (parts.length !== places.length) throw new RangeError("parts");
    places.forEach((place, number) => { place.outerHTML = parts[number]; });
    // What an address leads to may have come just now, or have been moved by what came above it.
    if (location.hash.length > 1 && !location.hash.startsWith("#?")) location.replace(location.hash);
  };
  const notice = document.getElementById("packed");
  // What could not be put back is told; what is there works all the same.
  putBack().catch(() => { notice.outerHTML = notice.textContent; }).then(begin);
})();
