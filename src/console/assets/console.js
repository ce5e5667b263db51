// Keeps times up to date, shows them in the browser's time zone, and tells when the live connection is lost.
// Every page works without it.
(() => {
    "use strict";
    const units = [["d", 86400, 172800], ["h", 3600, 7200], ["min", 60, 120], ["s", 1, 1]];
    const rough = (seconds) => {
        for (const [name, size, from] of units) if (seconds >= from) return `${Math.floor(seconds / size)} ${name}`;
        return "less than 1 s";
    };
    const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
    const update = () => {
        const now = Date.now();
        for (const element of document.querySelectorAll("time[datetime]")) {
            const at = Date.parse(element.dateTime);
            if (Number.isNaN(at)) continue;
            const text = absolute.format(at);
            if (element.dataset.absolute !== undefined) {
                if (element.textContent !== text) element.textContent = text;
                continue;
            }
            const seconds = (now - at) / 1000;
            const relative = seconds < 0 ? `in ${rough(-seconds)}` : `${rough(seconds)} ago`;
            if (element.textContent !== relative) element.textContent = relative;
            element.title = text;
        }
    };
    const connection = (lost) => {
        const note = document.getElementById("connection");
        if (note) note.hidden = !lost;
    };
    document.addEventListener("DOMContentLoaded", update);
    document.addEventListener("htmx:after:swap", update);
    document.addEventListener("htmx:sse:after:message", () => { connection(false); update(); });
    document.addEventListener("htmx:sse:after:connection", () => connection(false));
    document.addEventListener("htmx:sse:error", () => connection(true));
    setInterval(update, 5000);
    update();
})();
