"""What people do with candidates: compare, vote, kill, approve, replay and export."""
