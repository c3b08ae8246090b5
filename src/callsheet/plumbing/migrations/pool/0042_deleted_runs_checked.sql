-- needs code: any
ALTER TABLE pipeline_runs VALIDATE CONSTRAINT only_ended_runs_are_deleted;
