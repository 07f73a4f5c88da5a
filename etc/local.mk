# bash looks completions up by the command's name
completiondir = $(datadir)/bash-completion/completions
dist_completion_DATA = etc/bash-completion/zerolock
