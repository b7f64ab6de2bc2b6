# SPDX-License-Identifier: GPL-2.0-or-later
# fish completion of all programs: the program answers (service/program/complete.h).
function __vpmu_complete
	set -l words (commandline -opc)
	set -l word (commandline -ct)
	set -l program (string replace -r '^~' $HOME -- $words[1])
	for answer in ($program --complete $words[2..] "$word" 2>/dev/null </dev/null)
		if set -l files (string replace -f -- \tfiles\t '' $answer)
			for file in (__fish_complete_path (string sub -s (math (string length -- $files) + 1) -- $word))
				echo $files$file
			end
		else if not string match -q \t\* -- $answer
			echo $answer
		end
	end
end
for program in vpmu vpmu-vmm vpmud vpmu-exporter
	complete -c $program -f -a '(__vpmu_complete)'
end
