// How the adapter asks a worker to stop a job: a mark that stays, and a message to those who run it now.

export const WEEK = 7 * 24 * 3600;
/** Workers listen here for handles. */
export const CHANNEL = "taskbridge:bullmq:stop";

/** The mark of a job that is to stop. */
export function stopKey(handle: string): string {
  return `taskbridge:bullmq:stop:${handle}`;
}
