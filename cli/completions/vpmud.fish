# SPDX-License-Identifier: GPL-2.0-or-later
# fish completion of vpmud
complete -c vpmud -f
complete -c vpmud -s c -l config -r -F -d 'read FILE instead of /etc/vpmu/vpmud.conf'
complete -c vpmud -s C -l check-config -d 'say what is wrong with the configuration, and end'
complete -c vpmud -l help -d 'show the options'
complete -c vpmud -l usage -d 'show a short usage message'
complete -c vpmud -s V -l version -d 'show the version'
