# one file a subcommand
