-- What a user gets back for canceling a job of the workflow that runs: everything, or the share that was not spent.
ALTER TABLE workflows
    ADD COLUMN refund_on_cancel text NOT NULL DEFAULT 'all' CHECK (refund_on_cancel IN ('all', 'unspent'));
