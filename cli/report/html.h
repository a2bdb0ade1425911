// Parts that all self-contained HTML pages use: escaped text, tables, the head.
#ifndef ZEROFLEET_CLI_REPORT_HTML_H_
#define ZEROFLEET_CLI_REPORT_HTML_H_

#include <string>
#include <string_view>
#include <vector>

namespace zerofleet::cli {

// `text` escaped for an element or a quoted attribute. Control characters are not allowed in HTML and become question
// marks.
std::string EscapedHtml(std::string_view text);

// A table with a header; the first column holds names, the others figures.
std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

// The beginning of a page, up to its first heading. `style` is CSS that follows the common style.
std::string HtmlHead(std::string_view title, std::string_view style);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_HTML_H_
