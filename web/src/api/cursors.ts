// How an infinite query finds its next page.
interface Page {
  next_cursor?: string | null;
}

export const BY_TEXT = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page: Page) => page.next_cursor ?? undefined,
};

/** For lists that the API orders by a number. */
export const BY_NUMBER = {
  initialPageParam: undefined as number | undefined,
  getNextPageParam: (page: Page) => (page.next_cursor ? Number(page.next_cursor) : undefined),
};
