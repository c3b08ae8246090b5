-- A worker with several engines says in its polls how many jobs it runs at once now: max_concurrency follows, so that whatever
-- counts places counts those that are there. What it registered with is the most it may say. Null: registered before this.
ALTER TABLE comfyui_workers ADD COLUMN registered_concurrency integer CHECK (registered_concurrency > 0);
