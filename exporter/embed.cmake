# SPDX-License-Identifier: GPL-2.0-or-later
# cmake -DOUT=FILE -DDIR=FOLDER -P embed.cmake: the files of the report page as C strings: report_html, report_css and
# report_js, with the sizes report_..._len.
set(html report.html)
set(css report.css)
set(js rule.js draw.js flame.js view.js live.js start.js)
set(text "/* Made by exporter/embed.cmake. */\n#include \"exporter/page.h\"\n")
foreach(name html css js)
  set(hex "")
  foreach(file ${${name}})
    file(READ ${DIR}/${file} more HEX)
    string(APPEND hex "${more}")
  endforeach()
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND text "const char report_${name}[] = {${bytes}};\nconst size_t report_${name}_len = sizeof(report_${name});\n")
endforeach()
file(WRITE ${OUT} "${text}")
