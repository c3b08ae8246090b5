-- Votes: a person may also say that both candidates are good, or neither. Then both gain or lose the same points.
-- needs code: any

-- `both` and `neither`: winner_id and loser_id are the two candidates in any order, and elo_change is 0. The previous release
-- knows only winners: it can undo such a vote, and then both candidates keep the points.
ALTER TABLE votes ADD COLUMN verdict text NOT NULL DEFAULT 'winner';
ALTER TABLE votes ADD CONSTRAINT verdict_is_known CHECK (verdict IN ('winner', 'both', 'neither')) NOT VALID;
-- Points that each of the two candidates gained. It is negative for `neither`.
ALTER TABLE votes ADD COLUMN both_change integer NOT NULL DEFAULT 0;
ALTER TABLE votes ADD CONSTRAINT verdict_says_who_moves
    CHECK (verdict = 'winner' AND both_change = 0 OR verdict = 'both' AND both_change >= 0 AND elo_change = 0
        OR verdict = 'neither' AND both_change <= 0 AND elo_change = 0) NOT VALID;
