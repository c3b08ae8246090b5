import { useInfiniteQuery, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import { keys } from "@/api/keys";
import { libraryQuery } from "@/parts/job/library";
import { useLiveList } from "@/parts/job/useLiveList";
import { Pending } from "@/parts/Pending";
import { useTitle } from "@/parts/useTitle";
import { batchTexts } from "@/texts/batch";
import { BatchHead } from "./BatchHead";
import { ItemCard } from "./ItemCard";
import { ItemGrid } from "./ItemGrid";
import { layoutOf } from "./layout";
import { batchQuery, batchValuesQuery } from "./queries";

export function BatchPage() {
  const { id } = useParams({ from: "/framed/batches/$id" });
  const { data: batch } = useSuspenseQuery(batchQuery(id));
  const search = useMemo(() => ({ batch: id }), [id]);
  // The stream changes rows while the page is open, and reads only some of many that end at once.
  const query = useInfiniteQuery({ ...libraryQuery(search), refetchOnMount: "always" });
  useLiveList(search);
  const client = useQueryClient();
  const wasRunning = useRef(false);
  const isRunning = batch.status === "running";
  useEffect(() => {
    if (wasRunning.current && !isRunning) void client.invalidateQueries({ queryKey: keys.library({ ...search }) });
    wasRunning.current = isRunning;
  }, [client, search, isRunning]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  // The list is read whole, since it has the last items first. A batch has ten pages at most.
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const jobs = useMemo(
    () =>
      (query.data?.pages.flatMap((page) => page.items) ?? []).sort(
        (one, other) => (one.batch_item ?? 0) - (other.batch_item ?? 0),
      ),
    [query.data],
  );
  const { data: values } = useQuery(batchValuesQuery(id));
  // Files are dimensions by their names, so these must be known. Otherwise the grid fills while the list is read.
  const isArranged = !hasNextPage || (jobs.length > 0 && jobs.every((job) => !job.input_name));
  const layout = useMemo(
    () =>
      values && isArranged
        ? layoutOf(values, new Map(jobs.map((job) => [job.batch_item ?? 0, job.input_name ?? ""])))
        : null,
    [values, jobs, isArranged],
  );
  const name = batchTexts.title(batch.title, batch.items);
  useTitle(name);
  return (
    <>
      <BatchHead batch={batch} name={name} />
      {query.data === undefined ? (
        <Pending query={query} className="h-96 rounded-m!" />
      ) : layout ? (
        <ItemGrid layout={layout} jobs={new Map(jobs.map((job) => [job.batch_item ?? 0, job]))} />
      ) : (
        <ol className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-4 xl:grid-cols-5">
          {jobs.map((job) => (
            <li key={job.id} className="min-w-0">
              <ItemCard job={job} />
            </li>
          ))}
        </ol>
      )}
    </>
  );
}
