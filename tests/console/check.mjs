// Fails a test.

export function check(condition, message) {
    if (!condition) throw new Error(message);
}
