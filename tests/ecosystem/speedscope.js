// SPDX-License-Identifier: GPL-2.0-or-later
// What speedscope's own importer finds in files: node speedscope.js RELEASE FILE... RELEASE is dist/release of its npm
// package (1.20.0), whose import is a part of the page. A line for each profile: file, total weight, the frame with the
// most weight of its own, and that weight; or "not recognized".
const fs = require('fs'), path = require('path'), vm = require('vm')

const release = process.argv[2]
// A chunk of the page defines modules and then runs those of its last list. Here none is run.
const load = (start) => {
	const name = fs.readdirSync(release).find((f) => f.startsWith(start) && f.endsWith('.js'))
	const text = fs.readFileSync(path.join(release, name), 'utf8')
	vm.runInThisContext(text.replace(/\},\{\},\[[^\]]*\], ?null\)/, '},{},[],null)')
		.replace(/^parcelRequire=/, 'globalThis.parcelRequire='))
	return text
}
console.log = () => {} // the importer says which format it takes a file for
global.self = global.window = global
load('speedscope.')
const text = load('import.')
const before = text.slice(0, text.indexOf('exports.importProfileGroupFromText='))
const id = [...before.matchAll(/"([A-Za-z0-9+/]+)":\[function\(require,module,exports\)/g)].pop()[1]
const { importProfilesFromArrayBuffer } = parcelRequire(id)

const show = async (file) => {
	const bytes = new Uint8Array(fs.readFileSync(file)).buffer
	const group = await importProfilesFromArrayBuffer(path.basename(file), bytes)
	for (const p of group ? group.profiles : []) {
		let most = null
		p.forEachFrame((f) => { if (!most || f.getSelfWeight() > most.getSelfWeight()) most = f })
		console.info(path.basename(file), p.getTotalWeight(), most.name, most.getSelfWeight())
	}
	if (!group) console.info(path.basename(file), 'not recognized')
}
const all = async () => { for (const file of process.argv.slice(3)) await show(file) }
console.info = (...words) => process.stdout.write(words.join(' ') + '\n')
all().catch((e) => { console.error(e); process.exitCode = 1 })
