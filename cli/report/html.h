// What pages of one file share: text made harmless, tables.
#ifndef ZEROFLEET_CLI_REPORT_HTML_H_
#define ZEROFLEET_CLI_REPORT_HTML_H_

#include <string>
#include <string_view>
#include <vector>

namespace zerofleet::cli {

// `text` for an element or a quoted attribute. A control character has no place in HTML and becomes a question mark.
std::string EscapedHtml(std::string_view text);

// A table under a header; the first column is of names, the others are of figures.
std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

// The beginning of a page, up to its first heading: `style` follows what every page has.
std::string HtmlHead(std::string_view title, std::string_view style);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_HTML_H_
