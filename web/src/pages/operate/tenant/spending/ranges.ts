// Days of a report. They are apart from what draws it, because every page loads the routes.
export const RANGES = [7, 30, 90, 365] as const;
export type Range = (typeof RANGES)[number];
