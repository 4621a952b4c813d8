const unpack = async (packed) => {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
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
  putBack().then(begin, () => { notice.outerHTML = notice.textContent; });
})();
