const wireRows = () => {
  const make = (tag, text, props) => Object.assign(document.createElement(tag), { textContent: text }, props);
  const copyButton = (text) => {
    const button = make("button", said("Copy"), { type: "button", className: "copy" });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = said("Copied");
      } catch {
        button.textContent = said("Select and copy");
      }
      setTimeout(() => { button.textContent = said("Copy"); }, 1600);
    });
    return button;
  };
  const withCopy = (root) => {
    for (const block of root.querySelectorAll("pre.command")) {
      if (!block.querySelector(".copy")) block.append(copyButton(block.textContent));
    }
  };
  for (const section of document.querySelectorAll(".environment, .use")) withCopy(section);

  const island = document.getElementById("data");
  let text = null, trials = null;
  const dataText = () => (text ??= island.type === "application/json" ? Promise.resolve(island.textContent) : unpack(island.textContent));
  const medians = async (position) => {
    const data = await (trials ??= dataText().then((json) => JSON.parse(json).trials));
    const [caseOf, timeOf] = ["case", "time_s"].map((name) => {
      const at = data.columns.indexOf(name);
      return at < 0 ? () => (data.same ? data.same[name] : null) : (row) => row[at];
    });
    return data.rows.filter((row) => caseOf(row) === position).map(timeOf).filter((value) => typeof value === "number");
  };
  const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const seconds = (value) => {
    const [scale, unit] = UNITS.find(([size]) => value >= size * 0.9995) || UNITS[3];
    return `${Number((value / scale).toPrecision(3))} ${unit}`;
  };
  const drawn = document.querySelector("svg.patterns").namespaceURI;
  const svg = (tag, attributes, text) => {
    const element = document.createElementNS(drawn, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    return element;
  };
  const WIDTH = 420, LEFT = 6, DOTS = 14;

  const shape = async (body) => {
    const dots = await medians(Number(body.dataset.q));
    const [least, top, digits] = (body.dataset.h || "  ").split(" ");
    const [binLow, binHigh] = [Number(least), Number(top)], counts = [...digits].map((digit) => parseInt(digit, 36));
    const floor = counts.length ? 92 : 30;
    const ends = [...dots, ...(counts.length ? [binLow, binHigh] : [])];
    if (!dots.length) return null;
    let low = Math.min(...ends), high = Math.max(...ends);
    if (low === high) { low *= 0.99; high *= 1.01; }
    const x = (value) => LEFT + (WIDTH - 2 * LEFT) * (value - low) / (high - low);
    const from = dots.length > 1 ? "{n} trial medians from {low} to {high}" : "{n} trial median from {low} to {high}";
    const words = said(from, { n: dots.length, low: seconds(Math.min(...dots)), high: seconds(Math.max(...dots)) })
      + (counts.length ? said("; below, how its samples are spread") : "");
    const drawing = svg("svg", { class: "shape", viewBox: `0 0 ${WIDTH} ${floor + 20}`, role: "img", "aria-label": words });
    const most = Math.max(...counts, 1), wide = counts.length ? (x(binHigh) - x(binLow)) / counts.length : 0;
    counts.forEach((n, i) => {
      const tall = n / most * (floor - DOTS - 14);
      if (n) drawing.append(svg("rect", { x: x(binLow) + i * wide + 0.5, y: floor - tall, width: Math.max(1, wide - 1), height: tall, class: "bin" }));
    });
    dots.forEach((value) => drawing.append(svg("circle", { cx: x(value), cy: DOTS, r: 4, class: "dot" })));
    drawing.append(svg("path", { d: `M${LEFT} ${floor}H${WIDTH - LEFT}`, class: "floor" }));
    drawing.append(svg("text", { x: LEFT, y: floor + 15 }, seconds(low)));
    drawing.append(svg("text", { x: WIDTH - LEFT, y: floor + 15, "text-anchor": "end" }, seconds(high)));
    const figure = make("figure", "", { className: "shapes" });
    figure.append(make("figcaption", `● ${words}`), drawing);
    return figure;
  };

  document.addEventListener("toggle", async (event) => {
    const evidence = event.target.open && event.target.querySelector(":scope > .evidence");
    if (!evidence || evidence.querySelector(":scope > .copy")) return;
    withCopy(evidence);
    const code = event.target.querySelector("summary code");
    const button = copyButton(code.textContent);
    button.setAttribute("aria-label", said("Copy the command"));
    evidence.prepend(button);
    const body = event.target.closest("tbody");
    const figure = "q" in body.dataset ? await shape(body) : null;
    if (figure) button.after(figure);
  }, true);

  const openTarget = () => {
    const target = location.hash.startsWith("#r-") && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let around = target.parentElement; around; around = around.parentElement) {
      if (around.hidden) around.hidden = false;
      if (around.tagName === "DETAILS") around.open = true;
    }
    target.hidden = false;
    target.querySelector("details").open = true;
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", async () => {
    const blob = new Blob([await dataText()], { type: "application/json" });
    const link = make("a", "", { href: URL.createObjectURL(blob), download: "report.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
};
