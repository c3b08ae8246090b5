import { useQuery } from "@tanstack/react-query";
import { Download, Trophy } from "lucide-react";
import { useRef } from "react";
import { Button, Empty, Menu, MenuItem } from "@/design";
import { CandidateThumb } from "@/parts/CandidateThumb";
import { Pending } from "@/parts/Pending";
import { type SteadyUrls, steady } from "@/parts/steady-urls";
import { runTexts, winnerTexts } from "@/texts/runs";
import { type Candidate, exportUrl, type Run, winnersQuery } from "./queries";

export function WinnersTab({ run }: { run: Run }) {
  const winners = useQuery(winnersQuery(run.id));
  const kept = useRef<SteadyUrls>(new Map());
  return (
    <div className="grid gap-4">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="text-muted">{winnerTexts.text}</p>
        <Menu
          trigger={
            <Button icon={<Download size={16} />} disabled={run.candidates === 0}>
              {winnerTexts.export}
            </Button>
          }
        >
          <MenuItem onSelect={() => download(exportUrl(run.id, "active"))}>{winnerTexts.exportActive}</MenuItem>
          <MenuItem onSelect={() => download(exportUrl(run.id))}>{winnerTexts.exportAll}</MenuItem>
        </Menu>
      </div>
      {!winners.data ? (
        <Pending query={winners} className="h-64" />
      ) : winners.data.length === 0 ? (
        <Empty icon={<Trophy size={20} />} title={winnerTexts.none} text={winnerTexts.noneText} />
      ) : (
        <ol className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,260px),1fr))] gap-4">
          {winners.data.map((winner, place) => (
            <Winner key={winner.id} winner={steady(kept.current, winner)} rank={place + 1} />
          ))}
        </ol>
      )}
    </div>
  );
}

function Winner({ winner, rank }: { winner: Candidate; rank: number }) {
  const large = { ...winner, thumbnail: winner.file?.mime_type.startsWith("image/") ? winner.file : winner.thumbnail };
  return (
    <li className="panel overflow-hidden" aria-label={winnerTexts.rank(rank)}>
      <CandidateThumb candidate={large} alt={runTexts.image(winner.number)} className="aspect-[3/2] w-full" />
      <div className="flex items-center justify-between gap-3 p-3">
        <div className="num min-w-0 text-s">
          <div className="font-[550]">
            {rank}. {runTexts.candidateName(winner.number)}
          </div>
          <div className="text-muted">{winnerTexts.rating(winner.elo, winner.votes)}</div>
        </div>
        {winner.file?.url && (
          <Button look="quiet" size="icon" asChild>
            <a href={winner.file.url} download={winner.file.name} aria-label={winnerTexts.download(winner.number)}>
              <Download size={18} />
            </a>
          </Button>
        )}
      </div>
    </li>
  );
}

/** The server sends the file as an attachment, so the page stays open. */
function download(url: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = "";
  link.click();
}
