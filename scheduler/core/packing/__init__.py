"""Which node and which GPU: a compiled table of scores, updated column by column. Pure."""
