import { Skeleton } from "@/design";

const ROWS = 8;

export function ListSkeleton() {
  return (
    <div className="panel divide-y overflow-hidden" aria-hidden>
      {Array.from({ length: ROWS }, (_, index) => (
        <div key={index} className="flex h-19 items-center gap-3 px-4">
          <Skeleton className="ml-8 h-13 w-21" />
          <div className="grid grow gap-2">
            <Skeleton className="h-4 w-40" />
            <Skeleton className="h-3 w-64 max-w-full" />
          </div>
        </div>
      ))}
    </div>
  );
}
