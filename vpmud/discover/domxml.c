// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses a domain's XML with libxml2; see domxml.h. A document that defines entities or would take
 * libxml2 long is rejected first, and nothing external is ever loaded. */
#include <errno.h>
#include <string.h>
#include <libxml/parser.h>
#include <libxml/tree.h>

#include "service/program/memory.h"
#include "vpmud/discover/domxml.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/utf8.h"

#define BLANKS " \t\r\n"

/* libxml2 compares each attribute of an element with all others, and each prefixed name with all
 * namespaces. These limits are several times what the largest domains have. */
#define ATTRIBUTES_MAX 256  /* of an element */
#define NAMESPACES_MAX 1024 /* declared in the document */

void domxml_init(void)
{
	xmlInitParser();
}

static bool domxml_named(const xmlNode *n, const char *name)
{
	return n->type == XML_ELEMENT_NODE && !strcmp((const char *)n->name, name);
}

/* The child @name of @n that is in no namespace. */
static xmlNode *child(const xmlNode *n, const char *name)
{
	for (xmlNode *c = n->children; c; c = c->next)
		if (domxml_named(c, name) && !c->ns)
			return c;
	return NULL;
}

/* The child @name of @n, whose namespace is @space or, with @begins, begins with it. */
static xmlNode *child_of(const xmlNode *n, const char *name, const char *space, bool begins)
{
	for (xmlNode *c = n->children; c; c = c->next) {
		const char *href =
			c->type == XML_ELEMENT_NODE && c->ns ? (const char *)c->ns->href : NULL;

		if (href && domxml_named(c, name) &&
		    (begins ? !strncmp(href, space, strlen(space)) : !strcmp(href, space)))
			return c;
	}
	return NULL;
}

/* Copy the text of @n, trimmed, to @to. -EINVAL unless it has 1 to @size - 1 bytes. */
static int domxml_text_of(xmlNode *n, char *to, size_t size)
{
	xmlChar *all = n ? xmlNodeGetContent(n) : NULL;
	const char *text = (const char *)all;
	size_t len;
	int ret = -EINVAL;

	to[0] = 0;
	if (!n)
		return -EINVAL;
	if (!all)
		memory_out();
	text += strspn(text, BLANKS);
	len = strlen(text);
	while (len && strchr(BLANKS, text[len - 1]))
		len--;
	if (len && len < size) {
		memcpy(to, text, len);
		to[len] = 0;
		ret = 0;
	}
	xmlFree(all);
	return ret;
}

static int our_tenant(xmlNode *metadata, struct domxml *out, char *err, size_t errlen)
{
	xmlNode *n = child_of(metadata, "tenant", DOMXML_NAMESPACE, false);
	int ret;

	if (!n)
		return -ENOENT;
	ret = domxml_text_of(n, out->tenant, sizeof(out->tenant));
	if (!ret && out->tenant[0] == '/' && utf8_text(out->tenant) && !strchr(out->tenant, '\t'))
		return 0;
	out->tenant[0] = 0;
	fail(0, err, errlen,
	     "domain %s: metadata: tenant: expected a path as /acme/web of up to %d printable "
	     "bytes",
	     out->name, DISC_NAME_SIZE - 1);
	return 0;
}

/* <nova:instance><nova:owner><nova:project uuid="..."/>: a UUID, mostly without dashes. */
static int nova_tenant(xmlNode *metadata, struct domxml *out, char *err, size_t errlen)
{
	xmlNode *n = child_of(metadata, "instance", DOMXML_NOVA, true);
	xmlChar *uuid;
	size_t len;

	n = n ? child_of(n, "owner", DOMXML_NOVA, true) : NULL;
	n = n ? child_of(n, "project", DOMXML_NOVA, true) : NULL;
	if (!n)
		return 0;
	uuid = xmlGetNoNsProp(n, (const xmlChar *)"uuid");
	len = uuid ? strlen((char *)uuid) : 0;
	if (len >= 32 && len < DISC_UUID_SIZE &&
	    strspn((char *)uuid, "0123456789abcdefABCDEF-") == len) {
		out->tenant[0] = '/';
		memcpy(out->tenant + 1, uuid, len + 1);
	} else {
		fail(0, err, errlen,
		     "domain %s: metadata: uuid of Nova's project: expected 32 hexadecimal digits",
		     out->name);
	}
	xmlFree(uuid);
	return 0;
}

/* Return the position after the next @mark from @p on; NULL: none. */
static const char *behind(const char *p, const char *end, const char *mark)
{
	const char *at = memmem(p, (size_t)(end - p), mark, strlen(mark));

	return at ? at + strlen(mark) : NULL;
}

static bool begins(const char *p, const char *end, const char *with)
{
	return (size_t)(end - p) >= strlen(with) && !memcmp(p, with, strlen(with));
}

/* Return the ">" of the tag at @p, or NULL; count its attributes and add its namespaces. */
static const char *tag_end(const char *p, const char *end, size_t *attributes, size_t *namespaces)
{
	for (*attributes = 0; p && p < end && *p != '>'; p++) {
		*attributes += *p == '=';
		*namespaces += begins(p, end, "xmlns");
		if (*p == '"' || *p == '\'')
			p = memchr(p + 1, *p, (size_t)(end - p - 1));
		if (!p)
			break;
	}
	return p && p < end ? p : NULL;
}

/* Return the requirement that @xml violates, or NULL. After a syntax error the result does not
 * matter: parsing stops there. */
static const char *too_much(const char *xml, size_t len)
{
	const char *p = xml, *end = xml + len;
	size_t attributes, namespaces = 0;

	/* Other encodings than UTF-8 would hide tags. */
	while (p < end && strchr(BLANKS, *p) && *p)
		p++;
	if (p == end || *p != '<' || memchr(xml, '\0', len))
		return "a document in UTF-8";
	while (p && (p = memchr(p, '<', (size_t)(end - p)))) {
		if (begins(p, end, "<!--")) {
			p = behind(p + 4, end, "-->");
		} else if (begins(p, end, "<![CDATA[")) {
			p = behind(p, end, "]]>");
		} else if (begins(p, end, "<?")) {
			p = behind(p, end, "?>");
		} else if (begins(p, end, "<!")) {
			return "no document type";
		} else {
			p = tag_end(p, end, &attributes, &namespaces);
			if (attributes > ATTRIBUTES_MAX)
				return "up to 256 attributes of an element";
			if (namespaces > NAMESPACES_MAX)
				return "up to 1024 namespaces";
		}
	}
	return NULL;
}

#if LIBXML_VERSION >= 21200
static void end_at_error(void *ctxt, const xmlError *error)
#else
static void end_at_error(void *ctxt, xmlError *error)
#endif
{
	if (error->level == XML_ERR_FATAL)
		xmlStopParser(ctxt);
}

static int discover_domxml_parse(xmlDoc *doc, struct domxml *out, char *err, size_t errlen)
{
	xmlNode *root = xmlDocGetRootElement(doc), *metadata;
	char text[DISC_NAME_SIZE];
	int ret;

	if (!root || !domxml_named(root, "domain"))
		return fail(-EINVAL, err, errlen, "domain XML: expected a <domain>");
	ret = domxml_text_of(child(root, "name"), text, sizeof(text));
	if (ret)
		return fail(ret, err, errlen, "domain XML: expected a <name> of 1 to %d bytes",
			    DISC_NAME_SIZE - 1);
	cmdline_name(text, strlen(text), out->name);
	ret = domxml_text_of(child(root, "uuid"), text, sizeof(text));
	if (ret || !cmdline_uuid(text, strlen(text), out->uuid))
		return fail(-EINVAL, err, errlen, "domain %s: XML: expected a <uuid>", out->name);
	metadata = child(root, "metadata");
	if (!metadata)
		return 0;
	ret = our_tenant(metadata, out, err, errlen);
	return ret == -ENOENT ? nova_tenant(metadata, out, err, errlen) : ret;
}

int domxml_parse(const char *xml, size_t len, struct domxml *out, char *err, size_t errlen)
{
	xmlParserCtxt *ctxt;
	const char *expected;
	xmlDoc *doc;
	int ret;

	*out = (struct domxml){0};
	if (errlen)
		err[0] = 0;
	if (len > DOMXML_MAX)
		return fail(-EINVAL, err, errlen, "domain XML: expected up to %d bytes",
			    DOMXML_MAX);
	expected = too_much(xml, len);
	if (expected)
		return fail(-EINVAL, err, errlen, "domain XML: expected %s", expected);
	ctxt = xmlNewParserCtxt();
	if (!ctxt)
		memory_out();
	ctxt->sax->serror = end_at_error;
	/* No entities are substituted (there are none), and nothing comes from the network. */
	doc = xmlCtxtReadMemory(ctxt, xml, (int)len, "domain.xml", NULL,
				XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
					XML_PARSE_NOCDATA | XML_PARSE_COMPACT |
					XML_PARSE_IGNORE_ENC);
	xmlFreeParserCtxt(ctxt);
	if (!doc)
		return fail(-EINVAL, err, errlen, "domain XML: it is not well-formed");
	ret = discover_domxml_parse(doc, out, err, errlen);
	xmlFreeDoc(doc);
	return ret;
}
